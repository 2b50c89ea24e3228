# In the style of torchtitan's registries: functions that return nested configurations.
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
from torchtitan.models.llama3 import model_registry

LENGTH = 4_096


def llama3_small() -> Trainer.Config:
    """A first run: 'quotes' and (brackets of a text."""
    spec = model_registry(
        "8B",
        attn_backend="flex",
        converters=[Float8LinearConverter.Config(filter_fqns=["output"])],
    )
    return Trainer.Config(
        model_spec=spec,
        optimizer=default_adamw(lr=3e-4),
        training=TrainingConfig(local_batch_size=2, seq_len=LENGTH, steps=10),
        parallelism=ParallelismConfig(
            tensor_parallel_degree=2,  # of a pair (
        ),
        activation_checkpoint=SelectiveAC.Config(),
        compile=CompileConfig(enable=True),
        metrics=MetricsProcessor.Config(log_freq=1),
    )


def llama3_changed() -> Trainer.Config:
    config = llama3_small()
    config.training.local_batch_size = 1
    config.activation_checkpoint = FullAC.Config()
    config.parallelism.tensor_parallel_degree = 2 ** 1
    config.training.seq_len += 1
    for layer in config.model_spec.layers:
        layer.bias = True
    return config
