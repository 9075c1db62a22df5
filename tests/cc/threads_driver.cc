// Runs what kernels do in many threads, so that a thread sanitizer sees it. Prints what came out
// other than in one thread; the status is then 1.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cc/flight_store.h"
#include "cc/kept_casts.h"
#include "cc/low_blocks.h"
#include "cc/sum_blocks.h"
#include "cc/tf_compat.h"
#include "cc/update_blocks.h"

namespace npu_precision {
namespace {

constexpr int kThreads = 4;
constexpr int64_t kSize = 100003;  // of no whole block, whatever its size

void InThreads(const std::function<void(int)>& run) {
  std::vector<std::thread> threads;
  for (int k = 0; k < kThreads; ++k) threads.emplace_back(run, k);
  for (std::thread& each : threads) each.join();
}

int64_t Bound(int k) { return k == kThreads ? kSize : k * (kSize / kThreads) + k; }

struct Training {
  std::vector<float> variable, momentum;
  std::vector<uint16_t> gradient, low;

  Training() : variable(kSize), momentum(kSize), gradient(kSize), low(kSize) {
    std::vector<float> values(kSize);
    for (int64_t i = 0; i < kSize; ++i) {
      variable[i] = static_cast<float>(i % 977) / 977;
      momentum[i] = static_cast<float>(i % 31) / 31;
      values[i] = static_cast<float>(i % 103) / 103;
    }
    ToLow(values.data(), kSize, tensorflow::DT_BFLOAT16, gradient.data());
  }

  UpdateInputs Inputs() {
    UpdateInputs inputs;
    inputs.variables = {variable.data(), momentum.data()};
    inputs.tensors = {{gradient.data(), tensorflow::DT_BFLOAT16}};
    inputs.scalars = {0.9f};
    inputs.copies = {{0, low.data(), tensorflow::DT_BFLOAT16}};
    return inputs;
  }

  bool operator==(const Training& other) const {
    return variable == other.variable && momentum == other.momentum && low == other.low;
  }
};

bool UpdatesAreThoseOfOneThread() {
  UpdateProgram program;
  const std::string text =
      "variable:0 variable:1 tensor:0 scalar:0 mul:1:3 add:4:2 mul:5:3 sub:0:6 store:0:7 store:1:5";
  if (!ParseUpdate(text, 2, 1, 1, &program).ok()) return false;
  Training one, many;
  RunUpdate(program, one.Inputs(), 0, kSize);
  const UpdateInputs inputs = many.Inputs();
  InThreads([&](int k) { RunUpdate(program, inputs, Bound(k), Bound(k + 1)); });
  return one == many && !(one == Training());
}

bool SumsAreThoseOfOneThread() {
  Training training;
  const auto* low = reinterpret_cast<const char*>(training.gradient.data());
  const auto* row = reinterpret_cast<const char*>(training.variable.data());
  const std::vector<SumTerm> terms = {{low, tensorflow::DT_BFLOAT16, kSize},
                                      {row, tensorflow::DT_FLOAT, kSize}};
  std::vector<float> one(kSize), many(kSize);
  AddTerms(terms, 0, kSize, one.data());
  InThreads([&](int k) { AddTerms(terms, Bound(k), Bound(k + 1), many.data()); });
  return one == many && one[1] != 0;
}

// A variable, and what reads and updates it under its lock, as kernels do.
class Variable {
 public:
  Variable() : value_(tensorflow::DT_FLOAT, tensorflow::TensorShape({kSize})) {
    value_.flat<float>().setZero();
    tensorflow::Tensor low(tensorflow::DT_BFLOAT16, value_.shape());
    Round(&low);
    kept_ = std::make_shared<KeptCast>(value_, tensorflow::Tensor(), low);
    ShareCast(kept_);
  }

  tensorflow::Tensor Read() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return value_;
  }

  void Update(float element) {
    const std::lock_guard<std::mutex> lock(mutex_);
    tensorflow::Tensor low;
    const bool was_held = kept_->Release(value_, &low);
    if (!IsOnlyReader(value_)) {
      value_ = tensorflow::Tensor(tensorflow::DT_FLOAT, tensorflow::TensorShape({kSize}));
    }
    value_.flat<float>().setConstant(element);
    if (!was_held) return;
    if (low.NumElements() == 0) {
      low = tensorflow::Tensor(tensorflow::DT_BFLOAT16, value_.shape());
    }
    Round(&low);
    kept_->Renew(value_, low);
    ShareCast(kept_);
  }

 private:
  static uint16_t* Elements(tensorflow::Tensor* low) {
    return reinterpret_cast<uint16_t*>(const_cast<char*>(low->tensor_data().data()));
  }
  void Round(tensorflow::Tensor* low) {
    ToLow(value_.flat<float>().data(), kSize, tensorflow::DT_BFLOAT16, Elements(low));
  }

  std::mutex mutex_;
  tensorflow::Tensor value_;
  std::shared_ptr<KeptCast> kept_;
};

[[maybe_unused]] bool KeptCopiesAreOfTheirValues() {
  constexpr int kUpdates = 200;  // each yields a number that bfloat16 has
  Variable variable;
  std::atomic<int> found{0}, wrong{0};
  InThreads([&](int k) {
    for (int step = 1; step <= kUpdates; ++step) {
      if (k == 0) {
        variable.Update(static_cast<float>(step));
        std::this_thread::yield();
        continue;
      }
      const tensorflow::Tensor value = variable.Read();
      tensorflow::Tensor low;
      if (SharedCast(value, tensorflow::Tensor(), tensorflow::DT_BFLOAT16, &low) == nullptr) {
        continue;
      }
      ++found;
      const auto elements = value.flat<float>();
      const auto* copies = reinterpret_cast<const uint16_t*>(low.tensor_data().data());
      for (const int64_t i : {int64_t{0}, kSize / 2, kSize - 1}) {
        float copy;
        FromLow(copies + i, 1, tensorflow::DT_BFLOAT16, &copy);
        wrong += copy != elements(i);
      }
    }
  });
  return found > 0 && wrong == 0;
}

// Threads add the tensors of the same steps, while another one drains the store.
bool StepsAreCountedOnce() {
  constexpr int kSteps = 300, kAtOnce = 16;
  FlightStore& store = FlightStore::Get();
  store.Open(Watch::kAll, FlightSelection());
  std::vector<WatchedTensor> tensors(2 * kThreads);
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].node = "scope/" + std::to_string(i);
  const int number = store.AddGraph(tensors, {});
  std::atomic<int> adding{kThreads};
  std::vector<std::atomic<int>> ended(kSteps);  // by step, how many threads
  long long steps = 0, recorded = 0;
  const auto drain = [&](bool all) {
    for (const Json::Value& graph : store.Drain(all)) {
      if (graph["graph"].asInt() != number) continue;
      steps = graph["steps"].asInt64();
      recorded += graph["recorded"].size();
    }
  };
  std::thread drains([&] {
    while (adding > 0) {
      drain(false);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  InThreads([&](int k) {
    for (long long step = 0; step < kSteps; ++step) {
      while (step >= kAtOnce && ended[step - kAtOnce] < kThreads) std::this_thread::yield();
      const auto graph = store.Find(number);
      TensorCounts counts;
      counts.elements = 1;
      for (const int tensor : {k, k + kThreads}) {
        if (graph->Records(step, tensor)) graph->Add(step, tensor, counts, -1).IgnoreError();
      }
      ++ended[step];
    }
    --adding;
  });
  drains.join();
  drain(true);
  store.Close();
  return steps == kSteps && recorded == kSteps;
}

int Main() {
  int wrong = 0;
  const auto check = [&](const char* what, bool is_right) {
    if (!is_right) std::printf("wrong: %s\n", what);
    wrong += !is_right;
  };
  check("updates", UpdatesAreThoseOfOneThread());
  check("sums", SumsAreThoseOfOneThread());
  // TensorFlow's library, which counts who has a tensor and frees it, is not sanitized: that a
  // buffer is free only after its last reader is invisible to the sanitizer.
#if !defined(__SANITIZE_THREAD__)
  check("kept copies", KeptCopiesAreOfTheirValues());
#endif
  check("steps of a flight recorder", StepsAreCountedOnce());
  return wrong > 0;
}

}  // namespace
}  // namespace npu_precision

int main() { return npu_precision::Main(); }
