"""The command line: brings the platform up and talks to it."""
