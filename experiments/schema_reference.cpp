// Reference tables from field lists.
#include "experiments/schema_reference.h"

#include <algorithm>
#include <fmt/core.h>

namespace longshot {

namespace {

std::string summary_of(const std::string& section) {
  if (section == "device") return "where it is computed";
  if (section == "model") return "the encoder stack";
  if (section == "train") return "how it is trained";
  if (section == "evaluate") return "where it is measured; changing only this never retrains";
  return "";
}

void add_types(const SectionTypes& types, std::vector<ReferenceSection>& result) {
  std::string fallback = types.default_type.empty()
                             ? "must be given"
                             : fmt::format("default {}", quote_toml(types.default_type));
  for (const SectionType& type : types.types)
    result.push_back({types.section, type.name, type.summary, type.describe()});
  if (types.types.empty()) result.push_back({types.section, "", types.what + ", " + fallback, {}});
}

std::string heading(const ReferenceSection& section) {
  if (section.section.empty()) return "top level";
  if (section.type.empty()) return "[" + section.section + "]";
  return fmt::format("[{}] type = {}", section.section, quote_toml(section.type));
}

std::string kind(const FieldInfo& field) {
  if (field.limits.starts_with("one of ")) return field.limits;
  return field.limits.empty() ? field.type : field.type + ", " + field.limits;
}

// "|" would end a table cell.
std::string cell(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

}  // namespace

std::vector<ReferenceSection> reference(const std::string& only, const Schema& schema) {
  std::vector<ReferenceSection> result;
  const auto plain = [&](const std::string& wanted) {
    for (const auto& [section, fields] : Schema::plain())
      if (section == wanted) result.push_back({section, "", summary_of(section), fields});
  };
  if (only == "tasks") return add_types(schema.task(), result), result;
  if (only == "encodings") return add_types(schema.encoding(), result), result;
  if (only == "positions") return add_types(schema.positions(), result), result;
  if (!only.empty())
    throw UsageError(fmt::format("list: no such list {}; known: tasks, encodings, positions, keys",
                                 quote_toml(only)));
  plain("");
  result.back().fields.push_back({"extends", "list of files", "[]", "",
                                  "configs to start from, left to right, beside this file"});
  plain("device");
  add_types(schema.task(), result);
  plain("model");
  add_types(schema.encoding(), result);
  add_types(schema.positions(), result);
  plain("train");
  plain("evaluate");
  result.push_back(
      {"sweep",
       "",
       "many runs from one config: the product of grid, zip and cells. A [sweep] of an "
       "overlay (extends, a later file) replaces the earlier one as a whole",
       {{"grid", "table of lists", "{}", "", "every combination of the lists' values"},
        {"zip", "table of lists", "{}", "", "lists of equal length, in step"},
        {"cells", "list of tables", "[]", "", "explicit combinations"}}});
  return result;
}

std::string reference_text(const std::vector<ReferenceSection>& sections) {
  size_t key_width = 0, default_width = 0;
  for (const ReferenceSection& section : sections)
    for (const FieldInfo& field : section.fields) {
      key_width = std::max(key_width, field.key.size());
      default_width = std::max(default_width, field.default_value.size());
    }
  std::string text;
  for (const ReferenceSection& section : sections) {
    if (!text.empty()) text += "\n";
    text += heading(section) + (section.summary.empty() ? "" : "  " + section.summary) + "\n";
    for (const std::string& note : section.notes) text += "  " + note + "\n";
    for (const FieldInfo& field : section.fields)
      text += fmt::format("  {:<{}}  {:<{}}  {} ({})\n", field.key, key_width, field.default_value,
                          default_width, field.help, kind(field));
  }
  return text;
}

std::string reference_markdown(const std::vector<ReferenceSection>& sections) {
  std::string text;
  for (const ReferenceSection& section : sections) {
    if (!text.empty()) text += "\n";
    text += fmt::format("### {}\n\n", section.section.empty() ? "Top level" : heading(section));
    if (!section.summary.empty()) text += section.summary + "\n\n";
    if (section.fields.empty()) continue;
    text += "| key | default | allowed | meaning |\n|---|---|---|---|\n";
    for (const FieldInfo& field : section.fields)
      text += fmt::format("| `{}` | `{}` | {} | {} |\n", field.key, cell(field.default_value),
                          cell(kind(field)), cell(field.help));
  }
  return text;
}

}  // namespace longshot
