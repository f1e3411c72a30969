"""Looks at a run in the browser while it runs.

usage: browse_live.py URL FOLDER
"""
import os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from devtools import Browser

url, folder = sys.argv[1:]
STATE = "document.getElementById('state').textContent"
with Browser(os.path.join(folder, "browser-live")) as browser:
    page = browser.page(1100, 760)
    page.open(url)
    page.wait(f"/patches$/m.test({STATE})")
    page.click("#live summary")
    page.wait(f"document.querySelector('#jobs button[data-job^=infer]') || !/running/.test({STATE})")
    assert page.value(f"/running/.test({STATE})"), page.value(STATE)
    page.wait(f"/patches\\/s, [0-9][0-9a-z. ]+ left/.test({STATE}) || !/running/.test({STATE})")
    state = page.value(STATE)
    assert "patches/s" in state and "left" in state, state
    line = page.value("document.querySelector('#jobs button[data-job^=infer]').textContent")
    assert " of " in line and "task" in line, line
    page.value("document.querySelector('#jobs button[data-job^=infer]').focus()")
    page.key("Enter")
    shown = "document.getElementById('log').open && /^infer-/.test(document.getElementById('logname').textContent)"
    page.wait(f"({shown}) || !/running/.test({STATE})")
    if not page.value(shown):  # the run may end at any time, and its jobs go with it
        print("skipped: the run was over before the log of a job was shown")
        sys.exit()
    page.picture(os.path.join(folder, "live.png"))
    assert not [c for c in page.complaints if "log.txt" not in c], page.complaints
    print(state.replace("\n", "; "))
    print(line)
