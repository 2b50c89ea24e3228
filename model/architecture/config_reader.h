// ConfigReader gives typed access to the keys of a Hugging Face config.json. It keeps the first error, so that a family
// can read all its keys and check once. Missing and null are the same: Hugging Face takes its default for both.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/config_value.h"
#include "model/base/error.h"

namespace plumbline::model {

// Sizes that an object of a file may leave out; 0: none is assumed.
struct ModelSizes {
  std::int64_t layers = 0, hidden = 0, heads = 0, intermediate = 0, vocabulary = 0;
};

class ConfigReader {
 public:
  // Fails on an unreadable file, a JSON syntax error (with its line) and other than an object. `overrides` replace or
  // add keys.
  static Result<ConfigReader> open(const std::string& path, const ConfigOverrides& overrides = {});
  // Reads a text in the same way; errors name `path`.
  static Result<ConfigReader> parse(std::string text, const std::string& path, const ConfigOverrides& overrides);
  // Returns a reader without a file, in which every key is missing.
  static ConfigReader empty();
  ~ConfigReader();
  ConfigReader(ConfigReader&&) noexcept;
  ConfigReader& operator=(ConfigReader&&) noexcept;

  std::int64_t dimension(std::string_view key);                        // required, at least 1
  std::int64_t dimension(std::string_view key, std::int64_t missing);  // at least 1
  std::int64_t layers(std::string_view key);                           // required, from 1 to 10,000
  std::int64_t layers(std::string_view key, std::int64_t missing);     // from 0 to 10,000
  std::int64_t count(std::string_view key, std::int64_t missing);      // at least 0
  std::int64_t positions(std::string_view key);                        // no dimension: up to 1e9; missing: 0
  double number(std::string_view key, double missing);                 // finite
  double probability(std::string_view key, double missing);            // from 0 to below 1
  std::vector<std::int64_t> counts(std::string_view key);              // a list, each at least 0; missing: empty
  // A list, or lists and how often each is repeated, [[["global", "local"], 12]]; missing: empty.
  std::vector<std::string> texts(std::string_view key);
  // A number, or a list that has the same one for each layer.
  std::int64_t common_count(std::string_view key, std::int64_t missing);
  bool flag(std::string_view key, bool missing);
  std::string text(std::string_view key, std::string_view missing);

  // Reads keys from this object in the file, if there is one: "text_config", whose keys are those of the text model's
  // class, whatever the file has at its top; overrides come before both. Sizes that neither has are the `missing` ones.
  void read_inside(std::string_view object, const ModelSizes& missing = {});

  // Keys with a dot name a key inside an object of the file: "attn_config.alibi".
  bool is_null(std::string_view key) const;  // present and null
  bool is_text(std::string_view key, std::string_view text);
  bool is_list(std::string_view key);
  // Records an error about a key, with the file and the key's line.
  void fail(std::string_view key, std::string message, std::string hint);
  // The same for keys that are valid alone but contradict each other: infeasible when overrides are involved.
  void conflict(std::string_view key, std::string message, std::string hint);
  // Returns every key that was read so far, in order.
  const std::vector<std::string>& asked() const;
  // Returns the keys of the file that were not.
  std::vector<std::string> unread() const;
  const std::optional<Error>& error() const;

 private:
  struct Contents;
  explicit ConfigReader(std::unique_ptr<Contents> contents);
  std::int64_t integer(std::string_view key, std::int64_t minimum, std::int64_t maximum,
                       std::optional<std::int64_t> missing);
  std::unique_ptr<Contents> contents_;
};

}  // namespace plumbline::model
