// JSON as text for a file. nlohmann's dump() throws on a string that is not UTF-8; file names and
// messages that quote them may be that. They are written as printable() shows them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace longshot {

std::string json_text(nlohmann::ordered_json json, int indent);

}  // namespace longshot
