// A configuration of another program as a test writes it, imported; every name is a dense model of 32 layers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/configurations/import.h"

namespace plumbline::tests {

inline model::Result<model::configurations::ImportedConfiguration> import_text(
    const std::string& format, const std::string& text, const std::vector<std::string>& overrides = {},
    const std::string& function = "") {
  const auto dense = [](const std::string&) -> model::Result<model::Architecture> {
    model::Architecture model;
    model.layers = 32;
    model.heads = 32;
    model.key_value_heads = 8;
    model.head_dim = 128;
    model.intermediate_size = 14336;
    model.hidden_size = 4096;
    model.vocabulary = 128256;
    return model;
  };
  const auto& formats = model::configurations::configuration_formats();
  const auto found = std::ranges::find(formats, format, &model::configurations::ConfigurationFormat::name);
  return model::configurations::import_configuration(*found, text, "file", {overrides, function, "plan.json", dense});
}

// Returns an import that has to succeed.
inline model::configurations::ImportedConfiguration imported(const std::string& format, const std::string& text,
                                                             const std::vector<std::string>& overrides = {},
                                                             const std::string& function = "") {
  const auto result = import_text(format, text, overrides, function);
  EXPECT_TRUE(result) << to_string(result.error());
  return result.value_or(model::configurations::ImportedConfiguration());
}

// Returns the words of a refusal; none where there is none.
inline std::string refusal(const std::string& format, const std::string& text,
                           const std::vector<std::string>& overrides = {}) {
  const auto result = import_text(format, text, overrides);
  return result ? "" : to_string(result.error());
}

inline std::string noted(const model::configurations::ImportedConfiguration& imported) {
  std::string all;
  for (const auto& note : imported.notes) all += note.text + "\n";
  return all;
}

}  // namespace plumbline::tests
