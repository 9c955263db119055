"""`bankml show`: the sections of a model."""

from __future__ import annotations

from typing import Any

import pytest

from server.commands.show import sections

DETAILS = {"family": "llama", "parameter_size": "7B", "quantization_level": "F16"}
MODEL = """\
  Model
    architecture    llama    
    parameters      7B       
    quantization    F16      

"""  # noqa: W291 - cells are padded


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, ""),
        ({"capabilities": ["completion", "tools"]}, "  Capabilities\n    completion    \n    tools         \n\n"),
        (
            {"parameters": 'stop           "<|im_end|>"\n\ntemperature    0.5'},
            '  Parameters\n    stop           "<|im_end|>"    \n    temperature    0.5             \n\n',
        ),
        (
            {"system": "Be short.\n\n  Be kind.\r\nBe right.\n"},
            "  System\n    Be short.    \n    Be kind.     \n    ...          \n\n",
        ),
        ({"license": "MIT License\nCopyright\n"}, "  License\n    MIT License    \n    Copyright      \n\n"),
        (
            {
                "projector_info": {
                    "general.architecture": "clip",
                    "general.parameter_count": 133_700_000,
                    "clip.vision.embedding_length": 0,
                    "clip.vision.projection_dim": 64,
                }
            },
            "  Projector\n    architecture        clip       \n    parameters          133.70M    \n"
            "    embedding length    0          \n    dimensions          64         \n\n",
        ),
    ],
)
def test_a_section_is_there_when_the_model_has_it(more: dict[str, Any], text: str) -> None:
    assert sections({"details": DETAILS, **more}) == MODEL + text


def test_the_lengths_are_those_of_the_architecture() -> None:
    info = {"general.architecture": "qwen3", "qwen3.context_length": 40960, "qwen3.embedding_length": 1024}
    assert sections({"details": {**DETAILS, "parameter_size": ""}, "model_info": info, "requires": "0.14.0"}) == (
        "  Model\n    architecture        qwen3     \n    context length      40960     \n"
        "    embedding length    1024      \n    quantization        F16       \n    requires            0.14.0    \n\n"
    )


def test_the_parameters_are_counted_when_nobody_says_their_number() -> None:
    info = {"general.architecture": "", "general.parameter_count": 7_000_000_000}
    assert "    parameters      7B    \n" in sections({"details": {}, "model_info": info})


def test_verbose_adds_the_metadata_in_order_and_the_tensors() -> None:
    info = {
        "general.parameter_count": 8_000_000_000,
        "general.architecture": "llama",
        "tokens": ["<s>", "</s>", "a", "b"],
        "types": [1, 2],
        "off": None,
        "flag": True,
    }
    tensors = [{"name": "blk.0.attn_q.weight", "type": "F16", "shape": [64, 32]}]
    text = sections({"details": DETAILS, "model_info": info, "tensors": tensors}, verbose=True)
    assert text.partition("  Metadata\n")[2] == (
        "    flag                       true                     \n"
        "    general.architecture       llama                    \n"
        "    general.parameter_count    8e+09                    \n"
        "    off                        <nil>                    \n"
        "    tokens                     [<s> </s> ...+2 more]    \n"
        "    types                      [1 2]                    \n\n"
        "  Tensors\n    blk.0.attn_q.weight    F16    [64 32]    \n\n"
    )
    assert "Metadata" not in sections({"details": DETAILS, "model_info": info})
