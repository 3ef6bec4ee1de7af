"""What a finished run found, in the forms that people and builds take. May not judge again."""
