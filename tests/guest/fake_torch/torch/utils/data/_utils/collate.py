def default_collate(batch):
    return batch


def default_convert(data):
    return data
