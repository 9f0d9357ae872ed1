"""What a PCIe link carries, by its generation and lanes, in B/s and one direction."""

from gputune.features import PcieLink

LANE = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}  # B/s of one lane
USABLE = 0.85  # of it is left for the data of large copies: packets have headers


def rates(link: PcieLink) -> tuple[float, float]:
    """Return the B/s that a link gives now, and those that it could; 0 for a generation that is not known."""
    now, most = LANE.get(link.generation, 0.0), LANE.get(link.generation_most, 0.0)
    return (now * link.lanes, most * link.lanes_most) if now and most else (0.0, 0.0)
