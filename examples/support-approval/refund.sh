# Refunds an order: sh refund.sh ORDER EUROS. Here it only writes a line to refunds.txt.
set -eu
echo "$1 $2 EUR" >> refunds.txt
echo "refunded $2 EUR of order $1"
