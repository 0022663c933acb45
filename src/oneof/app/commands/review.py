"""`oneof review`: decide about doubtful rows on a local web page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


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
        import contextlib
        import shlex
        from urllib.parse import quote

        from oneof.app.commands.show import open_page
        from oneof.app.review.folder import ReviewData
        from oneof.candidates.cells import unknown

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
        from oneof.app.review.decisions import Decisions

        server = ReviewServer(self.run_folder, data, self.port)
        address = server.url + (f"&class={quote(self.class_name)}" if self.class_name else "")
        print(f"{self.run_folder}: {data.candidates.describe()}")
        print(f"Review them at {address}\nCtrl-C ends it; every decision is saved at once.", flush=True)
        if self.browser:
            open_page(address)
        with contextlib.suppress(KeyboardInterrupt):
            server.run()
        decisions = Decisions(self.run_folder, data)
        skipped = f", {len(decisions.skipped)} skipped" if decisions.skipped else ""
        print(f"\n{len(decisions.decided)} rows decided{skipped}: {decisions.path}")
        if decisions.decided:
            print(f"next:   oneof fit ... --clean {shlex.quote(str(decisions.path))}")
        return 0
