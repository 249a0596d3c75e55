function money(amount) {
  return amount.toFixed(2) + " EUR";
}

function line(name, amount) {
  return name + ": " + money(amount);
}

function total(amounts) {
  return "Total: " + money(amounts.reduce((a, b) => a + b, 0));
}

module.exports = { money, line, total };
