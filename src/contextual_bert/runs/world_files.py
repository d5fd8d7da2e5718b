"""A stylist world and outfits drawn from it, as files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from contextual_bert.atomic_files import replacing_directory
from contextual_bert.data import StylistWorld

OUTFITS_FILE = "outfits.parquet"


def write_world(world: StylistWorld, outfits: pa.Table, directory: Path) -> None:
    """The world's files and outfits.parquet: all of them, or none where writing fails."""
    with replacing_directory(directory) as folder:
        parquet.write_table(outfits, folder / OUTFITS_FILE)
        world.save(folder)
