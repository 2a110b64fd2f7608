"""Half precision only where the processor computes in it: elsewhere bfloat16 is a hundred times slower than float32."""

import torch

from chainrule.errors import UserError


def has_bfloat16() -> bool:
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def check_precision(precision: str, carries_state: bool = False) -> None:
    if precision == "bfloat16" and carries_state:
        raise UserError("recurrent models train in float32 only; leave precision at float32")
    if precision == "bfloat16" and not has_bfloat16():
        raise UserError(
            "this processor has no instructions for bfloat16 (AVX512-BF16 or AMX); leave precision at float32"
        )
