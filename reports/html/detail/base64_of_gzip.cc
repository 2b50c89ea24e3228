#include "reports/html/detail/base64_of_gzip.h"

#include <cstddef>
#include <cstdint>

#include "reports/trace/gzip.h"

namespace plumbline::reports {
namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += i + k <= bytes.size() ? digits[(group >> (18 - 6 * k)) & 63] : '=';
  }
  return text;
}

}  // namespace

std::string base64_of_gzip(std::string_view bytes) {
  std::string zipped;
  Gzip gzip([&zipped](std::string_view piece) {
    zipped += piece;
    return true;
  });
  gzip.write(bytes);
  gzip.finish();
  return base64(zipped);
}

}  // namespace plumbline::reports
