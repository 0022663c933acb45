"""The commands of the `oneof` program: one dataclass each, `run()` does the work."""
