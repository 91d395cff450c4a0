// Goroutines, a channel, a fault that is recovered.
package main

import "fmt"

func main() {
	squares := make(chan int)
	for i := 0; i < 100; i++ {
		go func(i int) { squares <- i * i }(i)
	}
	sum := 0
	for i := 0; i < 100; i++ {
		sum += <-squares
	}
	fmt.Println("sum", sum)
	defer func() { fmt.Println("recovered:", recover()) }()
	var nothing *int
	fmt.Println(*nothing)
}
