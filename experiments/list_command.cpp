// `longshot list`: what there is, with every option, default and one line of meaning.
#include <algorithm>
#include <fmt/core.h>

#include "core/context.h"
#include "core/cpu/cpu_backend.h"
#include "core/error.h"
#include "core/streams.h"
#include "data/task.h"
#include "experiments/commands.h"
#include "experiments/schema_reference.h"
#include "nn/positional_encoding.h"

namespace longshot {
namespace {

// What guessing gets, from a task with its defaults; tasks over the user's own files have no such
// number.
std::vector<std::string> task_notes(const std::string& type) {
  try {
    const TaskSpec spec = make_task(type, ConfigTable())->spec();
    return {fmt::format("chance {:.1f} %: {}", 100 * spec.chance, spec.chance_reason)};
  } catch (const Error&) {
    return {};
  }
}

// How an encoding enters and what it does past the training length, as its traits say it.
std::vector<std::string> encoding_notes(const std::string& type, const ConfigTable& defaults,
                                        Context& context) {
  ParameterStore store(context);
  const EncodingModel model{64, 8, 8, 1, false, 40, 0};
  const EncodingTraits traits = Registry<PositionalEncoding>::instance()
                                    .find(type)
                                    ->create(defaults, ReadContext{}, model, ModuleScope(store))
                                    ->traits();
  std::string where;
  const auto add = [&](bool does, const char* hook) {
    if (does) where += (where.empty() ? "" : ", ") + std::string(hook);
  };
  add(traits.embeddings, "the input");
  add(traits.query_key, "query and key");
  add(traits.logits, "the attention logits");
  std::vector<std::string> notes;
  notes.push_back(
      fmt::format("changes {}; {}{}{}", where.empty() ? "nothing" : where,
                  traits.relative ? "relative"
                  : where.empty() ? "no position"
                                  : "absolute",
                  traits.causal_only ? "; causal models only" : "",
                  traits.capacity > 0 ? fmt::format("; capacity {}", traits.capacity) : ""));
  if (!traits.beyond.empty()) notes.push_back("beyond the training length: " + traits.beyond);
  return notes;
}

}  // namespace

int list_command(const std::string& what, const std::string& name) {
  if (what == "keys") {
    if (!name.empty()) throw UsageError(fmt::format("list keys: takes no name, got \"{}\"", name));
    print("{}", reference_text(reference()));
    return 0;
  }
  if (what == "tasks" || what == "encodings" || what == "positions") {
    std::vector<ReferenceSection> sections = reference(what);
    if (!name.empty()) {
      std::vector<std::string> known;
      for (const ReferenceSection& section : sections) known.push_back(section.type);
      std::erase_if(sections, [&](const ReferenceSection& each) { return each.type != name; });
      if (sections.empty()) {
        const std::string nearest = nearest_name(name, known);
        throw UsageError(fmt::format("list {}: there is no \"{}\"; {}", what, name,
                                     nearest.empty()
                                         ? fmt::format("`longshot list {}` lists them", what)
                                         : fmt::format("did you mean \"{}\"?", nearest)));
      }
    }
    const std::unique_ptr<Backend> backend = make_cpu_backend();
    Context context(*backend);
    for (ReferenceSection& section : sections) {
      if (what == "tasks") section.notes = task_notes(section.type);
      if (what == "encodings") section.notes = encoding_notes(section.type, ConfigTable(), context);
    }
    print("{}", reference_text(sections));
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
    print("[{}]\n", types->section);
    for (const SectionType& type : types->types)
      print("  {:<{}}  {}\n", type.name, width, type.summary);
    print("\n");
  }
  print(
      "`longshot list tasks`, `encodings` or `positions` adds their options, with a name behind it "
      "that one's alone; `longshot list keys` "
      "is the "
      "whole config.\n");
  return 0;
}

}  // namespace longshot
