"""Types, errors, statistics and protocols that every layer shares. Imports no other layer."""
