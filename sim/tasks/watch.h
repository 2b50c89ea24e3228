// How the caller of work that takes long follows it, and ends it early.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "model/base/error.h"
#include "sim/tasks/indices.h"

namespace plumbline::sim {

struct Watch {
  std::function<bool()> stopped = nullptr;  // asked before each piece of work, from several threads; may be empty
  // Called after each piece, one call at a time, and by begin(); may be empty.
  std::function<void(std::size_t done, std::size_t total)> on_progress = nullptr;

  bool stops() const { return stopped && stopped(); }
  // Reports none done of work whose end, however early, keeps what was computed before it.
  void begin() const {
    if (on_progress) on_progress(0, 1);
  }
  // Returns the watch of one of `count` parts of the work, which are counted as equally long.
  Watch of_part(std::size_t part, std::size_t count) const {
    Watch one{stopped};
    if (on_progress)
      one.on_progress = [whole = on_progress, part, count](std::size_t done, std::size_t total) {
        whole(part * total + done, count * total);
      };
    return one;
  }
};

// The same as for_each_index() without a watch; indices that were not begun when it stopped are left out.
inline void for_each_index(std::size_t count, const Watch& watch, const std::function<void(std::size_t)>& body) {
  std::mutex mutex;
  std::size_t done = 0;
  for_each_index(count, [&](std::size_t index) {
    if (watch.stops()) return;
    body(index);
    if (!watch.on_progress) return;
    const std::scoped_lock lock(mutex);
    watch.on_progress(++done, count);
  });
}

// Returns nothing in place of what was stopped before it was there.
template <class Value>
model::Result<std::optional<Value>> unless_stopped(model::Result<Value> found) {
  if (!found && found.error().kind == model::ErrorKind::interrupted) return std::nullopt;
  return TRY(std::move(found));
}

}  // namespace plumbline::sim
