"""The commands of ``flashdojo``, related ones in one module. Heavy imports happen inside the commands."""
