// Columns: calls and time a step, share of the step, rate, and the rate as a share of the limit.
#include "experiments/profile_table.h"

#include <fmt/format.h>

#include "train/json_lines.h"

namespace longshot {
namespace {

double rate_of(const OperationTime& each) {
  const double amount = each.limit == Limit::arithmetic ? each.operations : each.bytes;
  return each.seconds > 0 ? amount / each.seconds : 0;
}

}  // namespace

double StepProfile::host_seconds() const {
  double rest = seconds;
  for (const OperationTime& each : operations) rest -= each.seconds;
  return rest;
}

double StepProfile::share_of_limit(const OperationTime& each) const {
  switch (each.limit) {
    case Limit::arithmetic:
      return rate_of(each) / operation_peak;
    case Limit::bandwidth:
      return rate_of(each) / bandwidth;
    case Limit::none:
      break;
  }
  return -1;
}

std::string profile_table(const StepProfile& profile) {
  std::string text = fmt::format("  {:<32}{:>7}{:>11}{:>9}{:>16}{:>10}\n", "operation", "calls",
                                 "ms a step", "share", "rate", "of limit");
  const double steps = double(profile.steps);
  for (const OperationTime& each : profile.operations) {
    text +=
        fmt::format("  {:<32}{:>7.4g}{:>11.4f}{:>7.1f} %", each.name, double(each.calls) / steps,
                    1e3 * each.seconds / steps, 100 * each.seconds / profile.seconds);
    if (each.limit != Limit::none) {
      text += fmt::format("{:>9.1f} {}{:>8.1f} %", 1e-9 * rate_of(each),
                          each.limit == Limit::arithmetic ? "GFLOP/s" : "GB/s   ",
                          100 * profile.share_of_limit(each));
    }
    text += "\n";
  }
  text += fmt::format("  {:<32}{:>7}{:>11.4f}{:>7.1f} %\n", "the rest: host work", "",
                      1e3 * profile.host_seconds() / steps,
                      100 * profile.host_seconds() / profile.seconds);
  text +=
      fmt::format("  {:<32}{:>7}{:>11.4f}\n", "step, profiled", "", 1e3 * profile.seconds / steps);
  text += fmt::format(
      "  Limits: {:.1f} GFLOP/s for matrix products and attention, {:.1f} GB/s from main memory "
      "for the others\n"
      "  (above 100 %: the data came from a cache).\n",
      1e-9 * profile.operation_peak, 1e-9 * profile.bandwidth);
  return text;
}

std::string profile_json(const StepProfile& profile) {
  const double steps = double(profile.steps);
  std::string list = "[";
  for (const OperationTime& each : profile.operations) {
    JsonObject object;
    object.add("operation", std::string_view(each.name))
        .add("calls_per_step", double(each.calls) / steps)
        .add("ms_per_step", 1e3 * each.seconds / steps)
        .add("share", each.seconds / profile.seconds);
    if (each.limit != Limit::none) {
      object
          .add(each.limit == Limit::arithmetic ? "gflop_per_second" : "gb_per_second",
               1e-9 * rate_of(each))
          .add("share_of_limit", profile.share_of_limit(each));
    }
    list += object.text() + ", ";
  }
  list += JsonObject()
              .add("operation", std::string_view("host"))
              .add("ms_per_step", 1e3 * profile.host_seconds() / steps)
              .add("share", profile.host_seconds() / profile.seconds)
              .text();
  return list + "]";
}

}  // namespace longshot
