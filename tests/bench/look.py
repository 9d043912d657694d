# SPDX-License-Identifier: GPL-2.0-only
"""What all pictures have in common: a policy has the same colour in each of them, one that
the colour-blind can tell from the others (Okabe and Ito's), and an axis says which way is
better. The background is white, so that they can be read on a dark page as well."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {
    "none": "#999999",
    "file": "#e69f00",
    "boundary": "#56b4e9",
    "dsm": "#d55e00",
    "life": "#882255",
    "autostream-sfr": "#009e73",
    "filestream": "#0072b2",
    "per-object": "#cc79a7",
    "per-file": "#f0e442",
    "oracle": "#000000",
}
# Of a policy with options, beside the same without.
OTHER = "#7b4b26"


def style(name):
    """Of a bar; NAME is "POLICY[:OPTIONS][+discard]"."""
    policy, _, discard = name.partition("+")
    return {"color": COLOURS.get(policy, OTHER), "edgecolor": "white", "hatch": "//" if discard else None}


def higher(what):
    return f"{what}\nhigher is better ↑"


def lower(what):
    return f"{what}\nlower is better ↓"


def save(figure, path, **how):
    figure.savefig(path, dpi=80, **how)
    plt.close(figure)
    print(f"wrote {path}")
