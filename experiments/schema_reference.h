// The rows of `longshot list keys` and of the reference page, from the field lists that also read
// the config.
#pragma once

#include <string>
#include <vector>

#include "experiments/schema.h"

namespace longshot {

struct ReferenceSection {
  std::string section;  // "" at the top level, "model", "encoding", "sweep"
  std::string type;     // "rope" for the options of one type, otherwise ""
  std::string summary;  // of the type or section
  std::vector<FieldInfo> fields;
  std::vector<std::string> notes = {};  // facts beside the options, a line each
};

// In the order of a config file. `only`: "tasks", "encodings", "positions" for that section's
// types,
// "" for everything.
std::vector<ReferenceSection> reference(const std::string& only = "",
                                        const Schema& schema = Schema::installed());

// Aligned text, one key a line: key, type and limits, default, meaning.
std::string reference_text(const std::vector<ReferenceSection>& sections);
// Markdown: a heading and a table a section.
std::string reference_markdown(const std::vector<ReferenceSection>& sections);

}  // namespace longshot
