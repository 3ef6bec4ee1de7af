"""Recordings: one captured launch in one file, and the capture of launches from unmodified applications.

May not build or run candidates; a compiler for what is put into the application's process is handed in.
"""
