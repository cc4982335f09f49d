"""The table of what is expected and seen, and how envlock and other programs are asked."""

import json
import os
import re
import subprocess
import sys


class Table:
    """Rows of (subject, what, expected, seen, agrees); `agrees` is None for what this machine cannot show."""

    def __init__(self):
        self.rows = []

    def add(self, subject, what, expected, seen, agrees=None):
        """A row; without `agrees` the two values must be equal."""
        if agrees is None:
            agrees = expected == seen
        self.rows.append((subject, what, str(expected), str(seen), bool(agrees)))
        self.show(self.rows[-1])

    def not_shown(self, subject, what, why):
        self.rows.append((subject, what, "", "not shown here: " + why, None))
        self.show(self.rows[-1])

    def show(self, row):
        subject, what, expected, seen, agrees = row
        mark = {True: "ok  ", False: "DIFF", None: "-   "}[agrees]
        short = seen if agrees is not True or len(seen) < 60 else seen[:57] + "..."
        wanted = "" if agrees is not False else "   expected: " + expected
        print("%s  %-10s %-34s %s%s" % (mark, subject, what, short, wanted), flush=True)

    def differences(self):
        return [row for row in self.rows if row[4] is False]

    def save(self, path, head):
        keys = ("subject", "what", "expected", "seen", "agrees")
        rows = [dict(zip(keys, row)) for row in self.rows]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(dict(head, rows=rows, differences=len(self.differences())), file, indent=1)


class Program:
    """A finished program."""

    def __init__(self, command, seconds=300, **environment):
        # A variable that is None is unset.
        variables = {k: v for k, v in {**os.environ, **environment}.items() if v is not None}
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  timeout=seconds, env=variables, check=False)
            self.code, self.out, self.err = done.returncode, *(s.decode("utf-8", "replace") for s in (done.stdout, done.stderr))
        except FileNotFoundError:
            self.code, self.out, self.err = None, "", "not installed"
        except subprocess.TimeoutExpired:
            self.code, self.out, self.err = None, "", "no answer in %d s" % seconds

    def json(self):
        try:
            return json.loads(self.out)
        except ValueError:
            return {}

    def last_line(self):
        lines = [line for line in (self.out + self.err).splitlines() if line.strip()]
        return lines[-1] if lines else ""


class Envlock:
    """The program under test, in a folder of its own."""

    def __init__(self, path, folder):
        self.path, self.folder = os.path.abspath(path), folder

    def __call__(self, *arguments, seconds=300, **environment):
        command = [self.path, "--project", self.folder, "--offline", *arguments]
        return Program(command, seconds, ENVLOCK_CACHE_DIR=os.path.join(self.folder, "cache"), **environment)


def python(text, seconds=120, **environment):
    """Runs a text in this interpreter."""
    return Program([sys.executable, "-c", text], seconds, **environment)


def digits(uuid):
    return re.sub("[^0-9a-f]", "", uuid.lower())
