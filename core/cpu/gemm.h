// Matrix product on the CPU: everything GemmArgs (core/backend.h) describes, f32 and f64.
//
// B is packed once into panels two vectors wide, [inner][2 W], which the register tile of
// core/cpu/tile.h streams; A is read in place, or packed when it is transposed or its rows would
// collide in the cache. Three ways to cut the work, chosen by shape alone:
//   - tasks = blocks of rows x blocks of columns over a shared packed B (tall and large products);
//   - a long inner dimension with a small result: the inner dimension in pieces, each with its own
//     partial result, summed in a fixed order (weight gradients);
//   - many small matrices: one task a matrix.
// An element's sum has one order of terms for a given shape, so bits do not depend on threads.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

// Errors: null pointers, leading dimensions shorter than a row, bias or activation with accumulate.
void gemm(const GemmArgs& args);

}  // namespace longshot::cpu
