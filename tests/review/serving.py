"""`oneof review` as a process of its own, for tests that need a real server."""

import os
import subprocess
import sys
from urllib.parse import urlsplit


class Serving:
    """A running server; `url` is what it printed."""

    def __init__(self, folder, *options):
        command = [sys.executable, "-m", "oneof.app.cli", "review", str(folder), "--no-browser", *options]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        )
        self.printed = ""
        self.url = ""
        for line in self.process.stdout:
            self.printed += line
            if "http://" in line:
                self.url = line.split()[-1]
                break
        assert self.url, self.process.communicate()[1]
        self.port = urlsplit(self.url).port
        self.token = dict(part.split("=") for part in urlsplit(self.url).query.split("&"))["token"]

    def end(self, signal):
        """Send a signal; gives exit code, the rest of the output, errors."""
        self.process.send_signal(signal)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
