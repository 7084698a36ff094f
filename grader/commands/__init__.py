"""The commands of ``flashdojo``, one module per kind of user. Heavy imports happen inside the commands."""
