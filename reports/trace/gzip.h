// Streaming gzip without a time stamp: equal input gives equal bytes.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace plumbline::reports {

class Gzip {
 public:
  using Sink = std::function<bool(std::string_view piece)>;

  explicit Gzip(Sink sink);
  ~Gzip();
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  // Both return false when the sink refused a piece; finish() writes the trailer and must be the last call.
  bool write(std::string_view data);
  bool finish();

 private:
  struct State;
  bool deflate_all(std::string_view data, int flush);

  Sink sink_;
  std::unique_ptr<State> state_;
};

}  // namespace plumbline::reports
