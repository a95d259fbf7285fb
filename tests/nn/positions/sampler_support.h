// Building a position sampler from one line of TOML, for tests.
#pragma once

#include <memory>
#include <string>

#include "core/config_toml.h"
#include "nn/position_sampler.h"

namespace longshot {

inline std::unique_ptr<PositionSampler> make_sampler(const std::string& toml) {
  const ConfigTable table = parse_toml(toml, "test.toml");
  const ConfigValue& type = *table.find("type");
  const auto& entry =
      Registry<PositionSampler>::instance().get(type.as_string(), "position sampler", type.where());
  return entry.create(table, {"positions", {}, {"type"}});
}

}  // namespace longshot
