"""`oneof review`: decide about doubtful rows on a local web page."""

from __future__ import annotations

import html
import os
import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from tyro.conf import Positional, arg

from oneof.app.commands.show import has_screen, open_page


@dataclass
class Review:
    """Open a page on this machine that shows doubtful rows, the most doubtful first, to decide by keys 1-9.

    Every decision goes to RUN/decisions.jsonl at once; `oneof fit ... --clean RUN/decisions.jsonl` learns
    from them. The page answers only to the address printed here. Ctrl-C ends it.
    """

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder that `oneof fit` wrote."""
    port: int = 0
    """Port on 127.0.0.1; 0: a free one."""
    browser: bool = True
    """Open the page in the browser."""
    class_name: Annotated[str | None, arg(name="class", metavar="NAME")] = None
    """Begin with the rows that may be, or look like, this class."""

    def run(self) -> int:
        from oneof.app.review.decisions import Decisions
        from oneof.app.review.folder import ReviewData
        from oneof.candidates.cells import counted, unknown

        data = ReviewData.load(self.run_folder)
        names = [str(name) for name in data.candidates.classes]
        if self.class_name is not None and self.class_name not in names:
            raise ValueError(f"--class {unknown(self.class_name, names, 'class')}")
        try:
            from oneof.app.review.server import ReviewServer
        except ImportError as error:
            raise RuntimeError(
                f"`oneof review` needs a package that is not installed ({error.name}).\n"
                "  Install it with: pip install 'oneof[review]'"
            ) from None
        server = ReviewServer(self.run_folder, data, self.port)
        address = server.url + (f"&class={quote(self.class_name)}" if self.class_name else "")
        print(f"{self.run_folder}: {data.candidates.describe()}")
        print(f"Review them at {address}\nCtrl-C ends it; every decision is saved at once.", flush=True)
        opened = _opened(address, self.run_folder) if self.browser else nullcontext()
        with opened, suppress(KeyboardInterrupt):
            server.run()
        decisions = Decisions(self.run_folder, data)
        skipped = f", {len(decisions.skipped)} skipped" if decisions.skipped else ""
        print(f"\n{counted(len(decisions.decided), 'row')} decided{skipped}: {decisions.path}")
        if decisions.decided:
            print(f"next:   oneof fit ... --clean {shlex.quote(str(decisions.path))}")
        return 0


@contextmanager
def _opened(address: str, folder: Path) -> Iterator[None]:
    """Show the page in the user's browser, where there is a screen to show it on.

    The address has the token, and everybody on this machine can see what a program was called with. So the
    browser is given a file that nobody else can read and that leads to the address.
    """
    if not has_screen():
        yield
        return
    page = folder.resolve() / f"open-review-{secrets.token_hex(4)}.html"
    try:
        with open(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(f'<meta http-equiv="refresh" content="0; url={html.escape(address)}">')
        open_page(page.as_uri())
        yield
    finally:
        page.unlink(missing_ok=True)
