// Losses and their gradients, CUDA against the CPU.
#include <tuple>

#include "tests/cuda/devices.h"
#include "tests/cuda/step_state.h"

using namespace longshot;
using longshot::test::Devices;
using longshot::test::step_state;

TEST_CASE("cuda: cross-entropy and its gradient", "[cuda]") {
  const double smoothing = GENERATE(0.0, 0.1);
  const int counted = GENERATE(0, 1, 2);  // nothing, some rows, a given count
  for (const auto& [rows, columns] :
       std::vector<std::tuple<int64_t, int64_t>>{{1, 2}, {70, 13}, {33, 100}, {0, 5}}) {
    Devices d;
    const auto logits = d.random(rows * columns, -5, 5);
    const auto targets =
        counted == 0 ? d.integers(rows, -1, -1) : d.integers(rows, -1, columns - 1);
    const auto lse = d.output(rows), row_loss = d.output(rows), loss = d.output(1);
    const auto denominator = d.put(std::vector<double>{-1}), given = d.put(std::vector<double>{8});
    const auto dloss = d.put(std::vector<float>{1.5f});
    const auto dlogits = d.output(rows * columns), added = d.output(rows * columns, true);
    d.run([&](Backend& b, int s) {
      b.cross_entropy({.rows = rows,
                       .columns = columns,
                       .logits = logits[s],
                       .targets = targets.i(s),
                       .smoothing = smoothing,
                       .count_override = counted == 2 ? static_cast<double*>(given[s]) : nullptr,
                       .log_sum_exp = lse[s],
                       .row_loss = row_loss[s],
                       .loss = loss[s],
                       .denominator = static_cast<double*>(denominator[s])});
      CrossEntropyBackwardArgs g{.rows = rows,
                                 .columns = columns,
                                 .logits = logits[s],
                                 .targets = targets.i(s),
                                 .smoothing = smoothing,
                                 .log_sum_exp = lse[s],
                                 .denominator = static_cast<double*>(denominator[s]),
                                 .dloss = dloss[s],
                                 .dlogits = dlogits[s]};
      b.cross_entropy_backward(g);
      g.dlogits = added[s];
      g.accumulate = true;
      b.cross_entropy_backward(g);
    });
    d.check(lse, "log_sum_exp");
    d.check(row_loss, "row_loss");
    d.check(loss, "loss");
    CHECK(d.read<double>(denominator, 0) == d.read<double>(denominator, 1));
    d.check(dlogits, "dlogits");
    d.check(added, "dlogits added");
  }
}

TEST_CASE("cuda: pointwise losses and their gradients", "[cuda]") {
  const bool logistic = GENERATE(false, true), masked = GENERATE(false, true);
  for (int64_t n : {1, 1000, 5000}) {
    Devices d;
    const auto x = d.random(n, -60, 60), target = d.random(n, 0, 1), mask = d.integers(n, 0, 1);
    const auto loss = d.output(1), dx = d.output(n), added = d.output(n, true);
    const auto denominator = d.put(std::vector<double>{-1});
    const auto dloss = d.put(std::vector<float>{0.5f});
    d.run([&](Backend& b, int s) {
      const int32_t* m = masked ? mask.i(s) : nullptr;
      double* by = static_cast<double*>(denominator[s]);
      b.pointwise_loss({.logistic = logistic,
                        .n = n,
                        .x = x[s],
                        .target = target[s],
                        .mask = m,
                        .loss = loss[s],
                        .denominator = by});
      PointwiseLossBackwardArgs g{.logistic = logistic,
                                  .n = n,
                                  .x = x[s],
                                  .target = target[s],
                                  .mask = m,
                                  .denominator = by,
                                  .dloss = dloss[s],
                                  .dx = dx[s]};
      b.pointwise_loss_backward(g);
      g.dx = added[s];
      g.accumulate = true;
      b.pointwise_loss_backward(g);
    });
    d.check(loss, "loss", 1e-4);
    CHECK(d.read<double>(denominator, 0) == d.read<double>(denominator, 1));
    d.check(dx, "dx");
    d.check(added, "dx added");
  }
}
