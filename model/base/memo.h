// A thread-safe table of computed values. The first thread that needs a value computes it, the others wait for it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace plumbline::model {

template <class Key, class Value>
class Memo {
 public:
  // Returns the value of the key, computed by make() on first use. make() must not use the memo.
  template <class Make>
  Value find(const Key& key, const Make& make) {
    std::shared_ptr<Entry> entry;
    {
      const std::scoped_lock lock(mutex_);
      std::shared_ptr<Entry>& known = known_[key];
      if (!known) known = std::make_shared<Entry>();
      entry = known;
    }
    std::call_once(entry->once, [&] { entry->value.emplace(make()); });
    return *entry->value;
  }
  void clear() {
    const std::scoped_lock lock(mutex_);
    known_.clear();
  }

 private:
  struct Entry {
    std::once_flag once;
    std::optional<Value> value;
  };
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> known_;
};

}  // namespace plumbline::model
