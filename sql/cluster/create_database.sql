create database settle
