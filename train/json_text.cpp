#include "train/json_text.h"

#include <nlohmann/json.hpp>

#include "core/streams.h"

namespace longshot {
namespace {

using Json = nlohmann::ordered_json;

void make_printable(Json& value) {
  if (value.is_string()) {
    value = printable(value.get_ref<const std::string&>());
  } else if (value.is_array()) {
    for (Json& item : value) make_printable(item);
  } else if (value.is_object()) {
    Json mended = Json::object();
    for (auto& [key, item] : value.items()) {
      make_printable(item);
      mended[printable(key)] = std::move(item);
    }
    value = std::move(mended);
  }
}

}  // namespace

std::string json_text(Json json, int indent) {
  make_printable(json);
  return json.dump(indent) + "\n";
}

}  // namespace longshot
