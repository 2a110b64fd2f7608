"""The command line: one file per command, each thin. Heavy imports happen inside the commands."""
