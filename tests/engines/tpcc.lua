#!/usr/bin/sysbench
-- SPDX-License-Identifier: GPL-2.0-only
--
-- The transactions of TPC-C for sysbench, on tables of any size. It is there
-- for what a database writes, not for results that could be compared with
-- those of others: customers are found by their numbers only, there are no
-- keying times, and nothing is checked at the end.

sysbench.cmdline.options = {
   warehouses = {"Warehouses", 2},
   items = {"Items, and stocks of a warehouse", 5000},
   customers = {"Customers of a district", 600},
}

local DISTRICTS = 10
-- Orders of a district at the start are as many as customers; of these the last
-- 30 % are not delivered.
local DELIVERED = 0.7

local schema = {
   warehouse = [[w_id INT, w_name VARCHAR(10), w_street VARCHAR(40), w_city VARCHAR(20), w_tax DECIMAL(4,4),
      w_ytd DECIMAL(14,2), PRIMARY KEY (w_id)]],
   district = [[d_w_id INT, d_id INT, d_name VARCHAR(10), d_street VARCHAR(40), d_city VARCHAR(20), d_tax DECIMAL(4,4),
      d_ytd DECIMAL(14,2), d_next_o_id INT, PRIMARY KEY (d_w_id, d_id)]],
   customer = [[c_w_id INT, c_d_id INT, c_id INT, c_last VARCHAR(16), c_street VARCHAR(40), c_city VARCHAR(20),
      c_phone CHAR(16), c_credit CHAR(2), c_discount DECIMAL(4,4), c_balance DECIMAL(12,2), c_ytd DECIMAL(12,2),
      c_payments INT, c_deliveries INT, c_data VARCHAR(500), PRIMARY KEY (c_w_id, c_d_id, c_id)]],
   history = [[h_id BIGINT AUTO_INCREMENT, h_c_id INT, h_c_d_id INT, h_c_w_id INT, h_d_id INT, h_w_id INT,
      h_date DATETIME, h_amount DECIMAL(6,2), h_data VARCHAR(24), PRIMARY KEY (h_id)]],
   item = [[i_id INT, i_im_id INT, i_name VARCHAR(24), i_price DECIMAL(5,2), i_data VARCHAR(50), PRIMARY KEY (i_id)]],
   stock = [[s_w_id INT, s_i_id INT, s_quantity INT, s_dist VARCHAR(240), s_ytd INT, s_orders INT, s_remote INT,
      s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id)]],
   orders = [[o_w_id INT, o_d_id INT, o_id INT, o_c_id INT, o_entry_d DATETIME, o_carrier_id INT, o_lines INT,
      PRIMARY KEY (o_w_id, o_d_id, o_id)]],
   new_orders = [[no_w_id INT, no_d_id INT, no_o_id INT, PRIMARY KEY (no_w_id, no_d_id, no_o_id)]],
   order_line = [[ol_w_id INT, ol_d_id INT, ol_o_id INT, ol_number INT, ol_i_id INT, ol_supply_w_id INT,
      ol_delivery_d DATETIME, ol_quantity INT, ol_amount DECIMAL(6,2), ol_dist CHAR(24),
      PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)]],
}
local indexes = {
   "CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last)",
   "CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
}

local uniform = sysbench.rand.uniform

-- TPC-C's clause 2.1.6, with a constant of 0
local function skewed(a, n)
   return bit.bor(uniform(0, a), uniform(1, n)) % n + 1
end

local function text(length)
   return sysbench.rand.string(string.rep("@", length))
end

-- ---- the tables --------------------------------------------------------------

local function fill(con, table, rows)
   con:bulk_insert_init("INSERT INTO " .. table .. " VALUES")
   rows(function(...) con:bulk_insert_next("(" .. string.format(...) .. ")") end)
   con:bulk_insert_done()
end

local function load_district(con, w, d)
   local n = sysbench.opt.customers
   local lines = {}
   fill(con, "customer", function(row)
      for c = 1, n do
         row("%d, %d, %d, '%s', '%s', '%s', '%s', 'GC', 0.1, -10, 10, 1, 0, '%s'",
             w, d, c, text(12), text(30), text(15), text(16), text(uniform(300, 500)))
      end
   end)
   fill(con, "orders", function(row)
      for o = 1, n do
         lines[o] = uniform(5, 15)
         row("%d, %d, %d, %d, NOW(), %s, %d", w, d, o, uniform(1, n), o <= n * DELIVERED and "1" or "NULL", lines[o])
      end
   end)
   fill(con, "new_orders", function(row)
      for o = math.floor(n * DELIVERED) + 1, n do row("%d, %d, %d", w, d, o) end
   end)
   fill(con, "order_line", function(row)
      for o = 1, n do
         for l = 1, lines[o] do
            row("%d, %d, %d, %d, %d, %d, NOW(), 5, 1.5, '%s'", w, d, o, l, uniform(1, sysbench.opt.items), w, text(24))
         end
      end
   end)
end

local function load_warehouse(con, w)
   con:query(string.format("INSERT INTO warehouse VALUES (%d, '%s', '%s', '%s', 0.1, 300000)",
                           w, text(8), text(30), text(15)))
   fill(con, "stock", function(row)
      for i = 1, sysbench.opt.items do
         row("%d, %d, %d, '%s', 0, 0, 0, '%s'", w, i, uniform(10, 100), text(240), text(uniform(26, 50)))
      end
   end)
   for d = 1, DISTRICTS do
      con:query(string.format("INSERT INTO district VALUES (%d, %d, '%s', '%s', '%s', 0.1, 30000, %d)",
                              w, d, text(8), text(30), text(15), sysbench.opt.customers + 1))
      load_district(con, w, d)
   end
end

local function prepare()
   local con = sysbench.sql.driver():connect()
   for table, columns in pairs(schema) do
      con:query("CREATE TABLE " .. table .. " (" .. columns .. ")")
   end
   for _, statement in ipairs(indexes) do con:query(statement) end
   fill(con, "item", function(row)
      for i = 1, sysbench.opt.items do
         row("%d, %d, '%s', 1.5, '%s'", i, uniform(1, 10000), text(20), text(uniform(26, 50)))
      end
   end)
   for w = 1, sysbench.opt.warehouses do load_warehouse(con, w) end
end

sysbench.cmdline.commands = { prepare = { prepare } }

-- ---- the transactions ----------------------------------------------------------

local con

function thread_init() con = sysbench.sql.driver():connect() end
function thread_done() con:disconnect() end

local function run(...) return con:query(string.format(...)) end
local function first(...) return con:query_row(string.format(...)) end

local function warehouse() return uniform(1, sysbench.opt.warehouses) end
local function district() return uniform(1, DISTRICTS) end
local function customer() return skewed(1023, sysbench.opt.customers) end

local function new_order()
   local w, d, c, lines = warehouse(), district(), customer(), uniform(5, 15)
   local items = {}
   for l = 1, lines do items[l] = skewed(8191, sysbench.opt.items) end
   -- in one order for everyone, against deadlocks
   table.sort(items)
   run("SELECT c_discount, c_last FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", w, d, c)
   local o = tonumber((first("SELECT d_next_o_id FROM district WHERE d_w_id = %d AND d_id = %d FOR UPDATE", w, d)))
   run("UPDATE district SET d_next_o_id = %d WHERE d_w_id = %d AND d_id = %d", o + 1, w, d)
   run("INSERT INTO orders VALUES (%d, %d, %d, %d, NOW(), NULL, %d)", w, d, o, c, lines)
   run("INSERT INTO new_orders VALUES (%d, %d, %d)", w, d, o)
   for l, i in ipairs(items) do
      local quantity = uniform(1, 10)
      run("SELECT i_price, i_name FROM item WHERE i_id = %d", i)
      run("UPDATE stock SET s_quantity = IF(s_quantity < %d + 10, s_quantity + 91, s_quantity) - %d, s_ytd = s_ytd + %d, " ..
          "s_orders = s_orders + 1 WHERE s_w_id = %d AND s_i_id = %d", quantity, quantity, quantity, w, i)
      run("INSERT INTO order_line VALUES (%d, %d, %d, %d, %d, %d, NULL, %d, 1.5, '%s')",
          w, d, o, l, i, w, quantity, text(24))
   end
end

local function payment()
   local w, d, c = warehouse(), district(), customer()
   local amount = uniform(1, 5000)
   run("UPDATE warehouse SET w_ytd = w_ytd + %d WHERE w_id = %d", amount, w)
   run("UPDATE district SET d_ytd = d_ytd + %d WHERE d_w_id = %d AND d_id = %d", amount, w, d)
   run("UPDATE customer SET c_balance = c_balance - %d, c_ytd = c_ytd + %d, c_payments = c_payments + 1 " ..
       "WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", amount, amount, w, d, c)
   run("INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) " ..
       "VALUES (%d, %d, %d, %d, %d, NOW(), %d, '%s')", c, d, w, d, w, amount, text(20))
end

local function order_status()
   local w, d, c = warehouse(), district(), customer()
   local o = first("SELECT MAX(o_id) FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_c_id = %d", w, d, c)
   if o then run("SELECT * FROM order_line WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %s", w, d, o) end
end

local function delivery()
   local w = warehouse()
   for d = 1, DISTRICTS do
      local o = first("SELECT no_o_id FROM new_orders WHERE no_w_id = %d AND no_d_id = %d ORDER BY no_o_id LIMIT 1 FOR UPDATE", w, d)
      if o then
         local of = string.format("ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %s", w, d, o)
         local c = first("SELECT o_c_id FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_id = %s", w, d, o)
         run("DELETE FROM new_orders WHERE no_w_id = %d AND no_d_id = %d AND no_o_id = %s", w, d, o)
         run("UPDATE orders SET o_carrier_id = %d WHERE o_w_id = %d AND o_d_id = %d AND o_id = %s", uniform(1, 10), w, d, o)
         run("UPDATE order_line SET ol_delivery_d = NOW() WHERE " .. of)
         run("UPDATE customer SET c_balance = c_balance + (SELECT SUM(ol_amount) FROM order_line WHERE " .. of .. "), " ..
             "c_deliveries = c_deliveries + 1 WHERE c_w_id = %d AND c_d_id = %d AND c_id = %s", w, d, c)
      end
   end
end

local function stock_level()
   local w, d = warehouse(), district()
   local o = tonumber((first("SELECT d_next_o_id FROM district WHERE d_w_id = %d AND d_id = %d", w, d)))
   run("SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_i_id = ol_i_id AND s_w_id = ol_w_id " ..
       "WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id >= %d AND s_quantity < 15", w, d, o - 20)
end

-- The shares of clause 5.2.3, in percent
local deck = { {45, new_order}, {43, payment}, {4, order_status}, {4, delivery}, {4, stock_level} }

function event()
   local card = uniform(1, 100)
   for _, kind in ipairs(deck) do
      card = card - kind[1]
      if card <= 0 then
         con:query("BEGIN")
         kind[2]()
         con:query("COMMIT")
         return
      end
   end
end

function sysbench.hooks.before_restart_event() con:query("ROLLBACK") end
