from types import SimpleNamespace as Node


def get_model_proto(iterator):
    """The model of a pipeline `range().map().batch()`, of which the map takes all the time."""
    size = iterator.dataset._batch_size
    n = iterator.count
    inner = [] if n == iterator.dataset.cardinality() else [3]  # stages that have done all of their work are gone
    common = {"parameters": [], "ratio": 1.0}
    return Node(
        output=1,
        gap_times=iterator.gaps,
        nodes={
            1: Node(**{**common, "name": "Root", "inputs": [2], "num_elements": n, "processing_time": n}),
            2: Node(
                **{**common, "name": "BatchV2", "inputs": inner, "ratio": size, "num_elements": n, "processing_time": n}
            ),
            3: Node(
                **{**common, "name": "Map", "inputs": [4], "num_elements": n * size, "processing_time": iterator.ns}
            ),
            4: Node(**{**common, "name": "Range", "inputs": [], "num_elements": n * size, "processing_time": n}),
        },
    )
