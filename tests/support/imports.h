// A configuration of another program as a test writes it, imported; every name is a dense model of 32 layers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/configurations/import.h"

namespace plumbline::tests {

using model::configurations::ImportedConfiguration;

inline const model::configurations::ConfigurationFormat& format_of(const std::string& name) {
  const auto& formats = model::configurations::configuration_formats();
  return *std::ranges::find(formats, name, &model::configurations::ConfigurationFormat::name);
}

inline model::Result<model::Architecture> dense_model(const std::string&) {
  model::Architecture model;
  model.layers = 32;
  model.heads = 32;
  model.key_value_heads = 8;
  model.head_dim = 128;
  model.intermediate_size = 14336;
  model.hidden_size = 4096;
  model.vocabulary = 128256;
  return model;
}

inline model::Result<ImportedConfiguration> import(const std::string& format, const std::string& text,
                                                   const std::vector<std::string>& overrides = {},
                                                   const std::string& function = "") {
  return import_configuration(format_of(format), text, "file", {overrides, function, "plan.json", dense_model});
}

// Mean lengths of prompts and answers, which no file of reinforcement learning states.
inline const std::vector<std::string> answer_lengths = {"rollout.prompt_tokens=200", "rollout.answer_tokens=500",
                                                        "rollout.answer_tokens_sd=400"};

// Returns an import that has to succeed.
inline ImportedConfiguration read(const model::Result<ImportedConfiguration>& imported) {
  EXPECT_TRUE(imported) << to_string(imported.error());
  return imported.value_or(ImportedConfiguration());
}
inline ImportedConfiguration imported(const std::string& format, const std::string& text,
                                      const std::vector<std::string>& overrides = {},
                                      const std::string& function = "") {
  return read(import(format, text, overrides, function));
}

// Returns the words of a refusal; none where there is none.
inline std::string refusal(const std::string& format, const std::string& text,
                           const std::vector<std::string>& overrides = {}) {
  const auto result = import(format, text, overrides);
  return result ? "" : to_string(result.error());
}

inline std::string noted(const ImportedConfiguration& imported) {
  std::string all;
  for (const auto& note : imported.notes) all += note.text + "\n";
  return all;
}

}  // namespace plumbline::tests
