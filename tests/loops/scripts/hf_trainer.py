"""transformers.Trainer: train with an evaluation each epoch."""

import tempfile

import torch
from parts import BATCH, Samples, model
from transformers import Trainer, TrainingArguments


class Rows(Samples):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return {"x": x, "labels": y}


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = model()

    def forward(self, x, labels):
        logits = self.net(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=3,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=BATCH,
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = Trainer(Classifier(), arguments, train_dataset=Rows(), eval_dataset=Rows(160))
        trainer.train()  # planted
