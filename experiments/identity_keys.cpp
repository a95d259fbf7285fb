#include "experiments/identity_keys.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace longshot {
namespace {

struct KeyList {
  const char* section;  // of a typed section: with the type
  const char* keys;
};

// Closed: see the header.
constexpr KeyList kFirstKeys[] = {
    {"", "seed"},
    {"device", "type tf32"},
    {"task.addition", "reversed pad end_token"},
    {"task.copy", "symbols repeats end_token"},
    {"task.copy_repeat", "symbols repeats end_token"},
    {"task.copy_with_replacement", "symbols repeats replace end_token"},
    {"task.identity", "symbols"},
    {"task.jsonl", "train valid test valid_fraction target strings pool vocabulary classes causal"},
    {"task.polynomial", "max_degree end_token"},
    {"task.reverse", "symbols variant end_token"},
    {"task.sorting", "symbols end_token"},
    {"task.sum", "end_token"},
    {"task.synthetic_text",
     "bytes text_seed symbols copy_rate copy_length min_distance max_distance valid_fraction "
     "test_fraction objective mask_fraction evaluate_bytes"},
    {"task.text",
     "corpus train_file valid_file test_file valid_fraction test_fraction objective mask_fraction "
     "evaluate_bytes"},
    {"model",
     "dim layers heads ffn norm norm_type epsilon activation dropout attention_dropout causal "
     "log_n_scaling attention_bias ffn_bias head_bias embedding_scale tied_head"},
    {"encoding.alibi", "variant"},
    {"encoding.binary", "mode order values capacity width first_channel beyond"},
    {"encoding.fraction_and_sign", "deviation"},
    {"encoding.learned", "capacity deviation beyond"},
    {"encoding.one_hot", "mode capacity first_channel beyond"},
    {"encoding.rope",
     "pairing base fraction width scaling scaling_at factor original_length target_length "
     "attention_factor beta_fast beta_slow truncate low_frequency_factor high_frequency_factor"},
    {"encoding.scalar", "mode normalisation length channel deviation"},
    {"encoding.shaw", "clip values"},
    {"encoding.sinusoidal", "layout base scale capacity beyond"},
    {"encoding.t5", "buckets max_distance deviation"},
    {"encoding.transformer_xl", "base clamp deviation"},
    {"positions.randomized", "max draw per_layer evaluate draw_every relative"},
    {"positions.shifted", "max draw"},
    {"train",
     "steps batch accumulate lr warmup schedule final_lr_fraction optimizer beta1 beta2 epsilon "
     "clip weight_decay label_smoothing lengths.min lengths.max lengths.draw lengths.length "
     "lengths.curriculum lengths.curriculum_steps evaluate_every patience min_delta keep "
     "init_from"},
    {"evaluate", "in_range_samples"}};

std::vector<std::string> first_keys(const std::string& section) {
  std::vector<std::string> keys;
  for (const KeyList& list : kFirstKeys) {
    if (section != list.section) continue;
    std::istringstream words(list.keys);
    for (std::string word; words >> word;) keys.push_back(word);
  }
  return keys;
}

using Values = std::map<std::string, ConfigValue>;  // by key, dotted within nested tables

void collect(const ConfigTable& table, const std::string& prefix, Values& values) {
  for (const auto& [name, value] : table.entries()) {
    if (value.is_table())
      collect(value.as_table(), prefix + name + ".", values);
    else
      values.emplace(prefix + name, value);
  }
}

void put(ConfigTable& table, const std::string& dotted_key, const ConfigValue& value) {
  const size_t dot = dotted_key.find('.');
  if (dot == std::string::npos) return table.set(dotted_key, value);
  const std::string name = dotted_key.substr(0, dot);
  if (!table.contains(name)) table.set(name, ConfigValue::table({}));
  put(table.find(name)->as_table(), dotted_key.substr(dot + 1), value);
}

ConfigTable lasting_section(Values values, const std::vector<std::string>& first,
                            const std::vector<FieldInfo>& fields) {
  ConfigTable result;
  for (const std::string& key : first) {
    const auto found = values.find(key);
    if (found == values.end()) continue;
    put(result, key, found->second);
    values.erase(found);
  }
  for (const auto& [key, value] : values) {
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&key = key](const FieldInfo& f) { return f.key == key; });
    if (field == fields.end() || field->default_value != value.to_toml()) put(result, key, value);
  }
  return result;
}

std::vector<FieldInfo> plain_fields(const std::string& section) {
  for (const auto& [name, fields] : Schema::plain())
    if (name == section) return fields;
  return {};
}

}  // namespace

ConfigTable lasting_part(const ConfigTable& trained, const Schema& schema) {
  Values top;
  for (const auto& [name, value] : trained.entries())
    if (!value.is_table()) top.emplace(name, value);
  ConfigTable result = lasting_section(std::move(top), first_keys(""), plain_fields(""));

  std::vector<std::string> sections = {"device",    "task",  "model",   "encoding",
                                       "positions", "train", "evaluate"};
  std::vector<std::string> later;
  for (const auto& [name, value] : trained.entries())
    if (value.is_table() && std::find(sections.begin(), sections.end(), name) == sections.end())
      later.push_back(name);
  std::sort(later.begin(), later.end());
  sections.insert(sections.end(), later.begin(), later.end());

  for (const std::string& name : sections) {
    const ConfigValue* found = trained.find(name);
    if (found == nullptr) continue;
    Values values;
    collect(found->as_table(), "", values);
    ConfigTable section;
    if (const SectionTypes* types = schema.typed(name)) {
      const std::string type = values.at("type").as_string();
      const SectionType* known = types->find(type);
      std::vector<std::string> first = first_keys(name + "." + type);
      first.insert(first.begin(), "type");
      section = lasting_section(std::move(values), first,
                                known ? known->describe() : std::vector<FieldInfo>());
    } else {
      section = lasting_section(std::move(values), first_keys(name), plain_fields(name));
      if (section.empty()) continue;  // a later section, all of it at its defaults
    }
    result.set(name, ConfigValue::table(std::move(section)));
  }
  return result;
}

}  // namespace longshot
