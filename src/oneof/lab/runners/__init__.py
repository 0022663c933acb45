"""Where jobs run: processes of this machine, or a Ray cluster."""
