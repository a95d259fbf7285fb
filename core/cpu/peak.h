// The machine's limits, measured: what a share of peak is a share of.
#pragma once

namespace longshot::cpu {

// Multiply-adds in f32 vector registers alone, all `thread_count` threads (0: threads()), best of
// several runs of about 2 ms. FLOP/s, a multiply-add counted as two.
double measure_fma_peak(int thread_count = 0, int attempts = 25);

// Bytes/s of a triad a = b + s * c over arrays larger than the caches (1.5 GiB in all), the
// write-allocate read of a counted: 4 transfers an element. Best of several passes.
double measure_bandwidth(int thread_count = 0);

}  // namespace longshot::cpu
