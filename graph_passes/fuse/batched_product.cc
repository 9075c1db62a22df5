#include "graph_passes/fuse/batched_product.h"

#include "graph_passes/fuse/einsum_equation.h"

namespace npu_precision {
namespace {

bool Has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// The role of each dimension, by the places of its label.
struct Roles {
  std::string batch[3];  // in the order of the result, and of each operand
  std::string own[2];    // of one operand and the result: rows or columns
  std::string summed;
};

bool ReadRoles(const EinsumEquation& equation, Roles* roles) {
  for (char label : equation.result) {
    const bool in_first = Has(equation.operands[0], label);
    const bool in_second = Has(equation.operands[1], label);
    if (!in_first && !in_second) return false;
    (in_first && in_second ? roles->batch[0] : roles->own[in_first ? 0 : 1]) += label;
  }
  for (int operand = 0; operand < 2; ++operand) {
    for (char label : equation.operands[operand]) {
      const bool is_shared = Has(equation.operands[1 - operand], label);
      if (Has(equation.result, label)) {
        if (is_shared) roles->batch[1 + operand] += label;
      } else if (!is_shared) {
        return false;  // a sum of its own
      } else if (operand == 0) {
        roles->summed += label;
      }
    }
  }
  return !roles->batch[0].empty() && roles->own[0].size() == 1 && roles->own[1].size() == 1 &&
         roles->summed.size() == 1;
}

// The `perm` of a Transpose from `from` to `to`; empty if they are the same.
std::vector<int> Permutation(const std::string& from, const std::string& to) {
  std::vector<int> perm;
  if (from == to) return perm;
  for (char label : to) perm.push_back(static_cast<int>(from.find(label)));
  return perm;
}

// The dimensions of one operand as batch, `rows`, `columns`, or with the last two exchanged.
BatchedProduct::Operand OperandOf(int input, const std::string& labels, const std::string& batch,
                                  const std::string& rows, const std::string& columns) {
  BatchedProduct::Operand operand;
  operand.input = input;
  // The last dimension stays if possible: a Transpose that is still needed then moves whole rows.
  operand.adjoint = labels.back() == rows[0];
  operand.perm =
      Permutation(labels, operand.adjoint ? batch + columns + rows : batch + rows + columns);
  return operand;
}

int NumTransposes(const BatchedProduct& product) {
  return !product.first.perm.empty() + !product.second.perm.empty() + !product.result_perm.empty();
}

}  // namespace

bool ReadBatchedProduct(const tensorflow::NodeDef& einsum, BatchedProduct* product) {
  EinsumEquation equation;
  Roles roles;
  if (!ReadEinsumEquation(einsum, &equation)) return false;
  for (const std::string& labels : {equation.operands[0], equation.operands[1], equation.result}) {
    if (Has(labels, '.') || !AllDiffer(labels)) return false;
  }
  if (!ReadRoles(equation, &roles)) return false;
  int fewest = -1;
  for (const std::string& batch : roles.batch) {
    for (int first : {0, 1}) {
      const int second = 1 - first;
      BatchedProduct found;
      found.first =
          OperandOf(first, equation.operands[first], batch, roles.own[first], roles.summed);
      found.second =
          OperandOf(second, equation.operands[second], batch, roles.summed, roles.own[second]);
      found.result_perm =
          Permutation(batch + roles.own[first] + roles.own[second], equation.result);
      if (fewest >= 0 && NumTransposes(found) >= fewest) continue;
      fewest = NumTransposes(found);
      *product = found;
    }
  }
  product->labels[0] = equation.operands[0];
  product->labels[1] = equation.operands[1];
  return true;
}

}  // namespace npu_precision
