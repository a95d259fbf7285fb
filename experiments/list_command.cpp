// `longshot list`: what there is, with every option, default and one line of meaning.
#include <algorithm>
#include <fmt/core.h>

#include "core/error.h"
#include "experiments/commands.h"
#include "experiments/schema_reference.h"

namespace longshot {

int list_command(const std::string& what) {
  if (what == "keys") {
    fmt::print("{}", reference_text(reference()));
    return 0;
  }
  if (what == "tasks" || what == "encodings" || what == "positions") {
    fmt::print("{}", reference_text(reference(what)));
    return 0;
  }
  if (!what.empty()) {
    throw UsageError(
        fmt::format("list: unknown \"{}\"; it is one of tasks, encodings, positions, keys, or "
                    "nothing for an overview",
                    what));
  }
  const Schema& schema = Schema::installed();
  size_t width = 0;
  for (const SectionTypes* types : {&schema.task(), &schema.encoding(), &schema.positions()})
    for (const SectionType& type : types->types) width = std::max(width, type.name.size());
  for (const SectionTypes* types : {&schema.task(), &schema.encoding(), &schema.positions()}) {
    fmt::print("[{}]\n", types->section);
    for (const SectionType& type : types->types)
      fmt::print("  {:<{}}  {}\n", type.name, width, type.summary);
    fmt::print("\n");
  }
  fmt::print(
      "`longshot list tasks`, `encodings` or `positions` adds their options, `longshot list keys` "
      "is the "
      "whole config.\n");
  return 0;
}

}  // namespace longshot
