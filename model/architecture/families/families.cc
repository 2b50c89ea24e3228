#include "model/architecture/families/families.h"

#include <algorithm>

namespace plumbline::model {

std::vector<std::string> config_keys() {
  std::vector<std::string> keys = {"model_type"};
  for (const ModelType& type : model_types) {
    ConfigReader config = ConfigReader::empty();
    Architecture model;
    type.read(config, model);
    for (const std::string& key : config.asked()) {
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

}  // namespace plumbline::model
