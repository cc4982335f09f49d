import os, sys
from setuptools import setup, find_packages
VERSION = "1.0"
requires = ["numpy>=1.20", 'torch; sys_platform == "linux"']
if os.environ.get("CUDA"):
    requires.append("triton")
def read(path):
    with open(path) as f:
        return [line.strip() for line in f if line[0] != "#"]
setup(name="a", version=VERSION, install_requires=requires + read("requirements.txt"), extras_require={"x": [f"b=={VERSION}"]}, packages=find_packages())
