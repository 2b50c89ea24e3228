// Small config.json files, and the architectures that are read of them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "model/architecture/load_architecture.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {

inline model::Architecture valid(const model::Result<model::Architecture>& model) {
  EXPECT_TRUE(model) << to_string(model.error());
  return model.value_or(model::Architecture{});
}

// Returns the architecture of the fewest keys that a type needs, with Hugging Face's defaults for all others.
inline model::Result<model::Architecture> minimal(const std::string& model_type, const std::string& keys) {
  const TemporaryDirectory folder;
  const std::string text = "{\"model_type\": \"" + model_type + "\", \"vocab_size\": 100, " + keys + "}";
  return model::load_architecture(folder.write("config.json", text).string());
}
inline model::Architecture made(const std::string& model_type, const std::string& keys) {
  return valid(minimal(model_type, keys));
}

// Keys of a decoder.
inline const std::string decoder = R"("num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 32,
                                      "intermediate_size": 128)";

}  // namespace plumbline::tests
