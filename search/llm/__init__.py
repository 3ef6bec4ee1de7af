"""A language model as a proposer of variants: prompts, replies, the client. May not build, run or time anything."""
