// One JSON object on one line, built key by key. Numbers are written with the fewest digits that read back equal;
// numbers that are not finite are left out, as JSON has none.
#pragma once

#include <cstdint>
#include <string>

namespace plumbline::real::cuda {

class JsonLine {
 public:
  JsonLine& text(const std::string& key, const std::string& value);
  JsonLine& number(const std::string& key, double value);
  JsonLine& integer(const std::string& key, std::int64_t value);
  JsonLine& flag(const std::string& key, bool value);
  // Leaves the key out when `value` has no keys.
  JsonLine& object(const std::string& key, const JsonLine& value);

  // "{...}" without a line break.
  std::string str() const { return "{" + body_ + "}"; }

 private:
  void add(const std::string& key, const std::string& value);

  std::string body_;
};

// The string `key` of an object that JsonLine wrote, at its top level or below, first occurrence; empty when absent.
std::string read_text(const std::string& line, const std::string& key);

}  // namespace plumbline::real::cuda
