// JSON as text for a file. nlohmann's dump() throws on a string that is not UTF-8; file names and
// messages that quote them may be that. They are written as printable() shows them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/streams.h"

namespace longshot {

template <class Json>
std::string json_text(Json json, int indent) {
  const auto mend = [](auto& self, Json& value) -> void {
    if (value.is_string()) {
      value = printable(value.template get_ref<const std::string&>());
    } else if (value.is_array()) {
      for (Json& item : value) self(self, item);
    } else if (value.is_object()) {
      Json mended = Json::object();
      for (auto& [key, item] : value.items()) {
        self(self, item);
        mended[printable(key)] = std::move(item);
      }
      value = std::move(mended);
    }
  };
  mend(mend, json);
  return json.dump(indent) + "\n";
}

}  // namespace longshot
