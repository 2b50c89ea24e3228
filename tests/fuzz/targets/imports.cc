// Files of other programs that become plans: launch scripts of Megatron-LM, configurations.
#include "model/architecture/load_architecture.h"
#include "model/configurations/import.h"
#include "model/megatron/import.h"
#include "tests/fuzz/targets.h"

namespace plumbline::fuzz {
namespace {

namespace configurations = model::configurations;

// Returns the model whose name a configuration states, where it is a shipped one.
model::Result<model::Architecture> shipped_model(const std::string& config) {
  if (config.find_first_of("/.") != std::string::npos)
    return model::wrong_input("model.config", "no shipped model has this name");
  return model::load_architecture(in_repository("examples/models/" + config + ".json"));
}

void read_configuration(const configurations::ConfigurationFormat& format, std::string_view input) {
  const configurations::ConfigurationImport options = {{}, "", "config.json", &shipped_model};
  const auto imported = configurations::import_configuration(format, input, "configuration", options);
  require_words(imported);
  if (imported) require_read(model::read_plan(imported->toml, "imported.toml", {}));
}

}  // namespace

std::vector<Target> configuration_targets() {
  std::vector<Target> result;
  for (const auto& format : configurations::configuration_formats())
    result.push_back({std::string(format.name),
                      [&format](std::string_view input) { read_configuration(format, input); },
                      {"tests/golden/inputs/configurations"}});
  return result;
}

void read_launch_script(std::string_view input) {
  const auto imported = model::megatron::import_script(input, "train.sh", {});
  require_words(imported);
  if (imported) require_read(model::read_plan(to_toml(imported->plan), "imported.toml", {}));
}

}  // namespace plumbline::fuzz
