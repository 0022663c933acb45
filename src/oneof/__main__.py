"""`python -m oneof` is `oneof`."""

from oneof.app.cli import main

if __name__ == "__main__":
    main()
